"""The Spark session of a job, its environment and its temporary files."""
