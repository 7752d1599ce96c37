"""For all tests."""

import signal

# A shell that runs the suite in the background has made it deaf to Ctrl-C, and the processes that tests start and
# interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
