"""Hard use of the course by machine: damaged models and notebooks, a grader that is killed, a power cut."""
