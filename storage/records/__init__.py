"""Bytes at rest: how journal records, pages, cursors and table rows are encoded, with their checksums.

Pure. Formats have a version and golden bytes in the tests."""
