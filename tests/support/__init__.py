"""What tests share: clients, referees, brokers and processes, by protocol and subject. There are no tests in here."""
