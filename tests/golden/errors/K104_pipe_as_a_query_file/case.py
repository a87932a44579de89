import os

import keuka

os.mkfifo("rise.cel")
keuka.query("rise.cel")
