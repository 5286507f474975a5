"""The course's notebooks in a learner's hands: copied, handed out, checked, reset, completed in Colab."""
