"""What is right in each exercise: its judges, and what they compare with.

A learner's process never loads these modules: a check loads them after the answer was asked, a grader only in
the process that judges.
"""
