"""Free functions of numbers and arrays: acquisition functions, confidence widths, information gain, rates."""
