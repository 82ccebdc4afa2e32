"""The publisher that every protocol uses: route, admit, post; retained messages; events as messages."""
