"""`python -m simulation`: play seeds, replay one seed, and shrink a failing run."""

from simulation.command import main

if __name__ == "__main__":
    main()
