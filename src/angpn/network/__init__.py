"""The paper's network, Eqs. (12) to (15): layer, model, training, and rows that come after it."""
