"""Colours of classes, the same in every picture and page."""

# Paul Tol's muted scheme and grey: ten hues that colour-blind readers can tell apart.
PALETTE = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
INK = "#222222"
