"""The paper's network, Eqs. (12) to (15): layer, model, loss, training, and prediction of new rows."""
