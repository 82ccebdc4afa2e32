"""Publish twelve readings of this board. The queue takes the name of the board from the topic, as the key."""

from connection import NAME, connect, leave

client = connect()
for number in range(1, 13):
    client.publish(f"devices/{NAME}/temperature", f"reading {number}", qos=1)  # returns when the broker has it
print("12 readings published")
leave(client)
