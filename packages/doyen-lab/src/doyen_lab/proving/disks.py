"""Gives each process of a group a disk of its own that is small enough to be filled."""

import errno
import subprocess
from collections.abc import Iterable
from pathlib import Path


class SmallDisks:
    """The file systems that were mounted, by label; `unmount` them at the end."""

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}

    def mount(self, labels: Iterable[str], folder: Path) -> None:
        """Make a file system of 64 KiB for each label."""
        for label in labels:
            path = self.paths[label] = folder / "disk" / label
            path.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "doyen-lab", str(path)], check=True)

    def fill(self, label: str) -> None:
        """Write until nothing more can be written."""
        with open(self.paths[label] / "rubbish", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self, label: str) -> None:
        (self.paths[label] / "rubbish").unlink()

    def unmount(self) -> None:
        for path in self.paths.values():
            subprocess.run(["umount", "--lazy", str(path)], check=False)
