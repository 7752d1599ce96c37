"""Reading what `doyen score` is given: TOML or JSON by the file's name, or CSV."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from doyen.errors import ConfigError


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not text in UTF-8 (byte {error.start})") from None


def read_data(path: Path) -> Any:
    text = read_text(path)
    try:
        return msgspec.json.decode(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
