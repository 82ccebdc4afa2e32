"""Ask for the price of an apple, and print the answer."""

import os

from proton import Message
from proton.utils import BlockingConnection, SyncRequestResponse

connection = BlockingConnection(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"), allowed_mechs="ANONYMOUS")
# It has a temporary queue for the answers, and knows by the correlation id which one is meant.
prices = SyncRequestResponse(connection, "prices")
print(f"apple: {prices.call(Message(body='apple')).body}")
connection.close()
