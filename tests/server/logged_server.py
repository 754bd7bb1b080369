"""The server with the stub engine, which logs to the file ``SERVER_LOG``."""

import os
import runpy
from pathlib import Path

if __name__ == "__main__":
    log = os.open(os.environ["SERVER_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    runpy.run_path(str(Path(__file__).with_name("stub_server.py")), run_name="__main__")
