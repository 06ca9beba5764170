"""What a query may do beyond exact windows, one package for each knob."""
