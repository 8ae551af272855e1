"""Each row's candidates and their distances, found exactly, by an index, or by several processes together."""
