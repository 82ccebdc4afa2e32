"""`python -m simulation`: play seeds, replay one, and shrink what fails."""

from simulation.command import main

if __name__ == "__main__":
    main()
