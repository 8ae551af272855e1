"""What every room needs and no room is about: checks, files, labels, memory, progress."""
