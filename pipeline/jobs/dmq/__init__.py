"""The job `dmq`: shows the messages of a dead message queue, the reasons, and the action to take."""
