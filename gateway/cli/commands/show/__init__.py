"""`sluicegate show`: what operators of Solace brokers look at, under the names that it has there."""
