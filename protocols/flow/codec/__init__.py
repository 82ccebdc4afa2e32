"""The flow protocol on the wire: codes, fields, columns, compression. No state."""
