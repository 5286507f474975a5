"""The processes in which submissions run and are judged: forks of one that has torch loaded, or new ones."""
