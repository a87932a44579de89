# Nothing here is called from other kernel modules; the file marks `upkeep.py` as one to compile.
