"""The paper's mathematics: normalisation, relational attention, objectives and the model."""
