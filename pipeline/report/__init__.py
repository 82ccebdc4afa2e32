"""Reports of jobs: a page of HTML and its plots."""
