"""Operations on the node, and on what all its message VPNs share."""
