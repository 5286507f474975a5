"""Lab 4: an operator without a rule, and rules for it in both exporters."""
