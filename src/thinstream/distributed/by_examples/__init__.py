"""Mode examples: each worker learns a part of the examples; now and then what they learned is merged."""
