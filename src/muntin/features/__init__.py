"""Features beyond exact windows: one package per knob."""
