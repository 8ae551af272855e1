"""Colours of classes, the same in every picture and page."""

# Paul Tol's muted scheme and grey: ten hues that colour-blind readers can tell apart.
PALETTE = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
# The same hues, lightened to contrast with a dark ground, and still distinct to colour-blind readers.
DARK_PALETTE = (
    "#7663EE", "#9BEBFA", "#58BFC6", "#36A04A", "#B0B83E", "#F5D3A0", "#F58090", "#C0376C", "#C673D6", "#767DA0",
)  # fmt: skip
INK = "#222222"
