"""The actor of one partition: a thin shell around its ledger, with paging, browsing and range reads."""
