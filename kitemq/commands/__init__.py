"""What the command line can do, one file per noun; `kitemq.cli` knows them all."""
