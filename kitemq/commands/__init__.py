"""The commands of the command line, one file per noun; `kitemq.cli` lists them all."""
