"""The bully election, for doyen."""

from bully.kind import Bully as Bully
