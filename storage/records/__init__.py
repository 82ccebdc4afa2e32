"""The at-rest format: encoding of journal records, pages, cursors and table rows, with their checksums.

Pure. Formats have a version and golden bytes in the tests."""
