"""Tests of the network half share `net_nodes`, which the processes they start import too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
