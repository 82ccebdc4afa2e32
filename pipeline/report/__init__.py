"""Reports of jobs: a page of HTML, its plots, and how texts are counted as alike."""
