"""For tests of machines, ours and yours: no network, no clock, no mock."""

from doyen.testing.recording import RecordingOut as RecordingOut
