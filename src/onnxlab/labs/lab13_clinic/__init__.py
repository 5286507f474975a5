"""Lab 13: patients that no chapter shows: the stage of a fault, inputs that show it, a repaired module."""
