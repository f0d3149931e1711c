"""The command `mrclab`: words in, text out; nothing here does the work itself."""
