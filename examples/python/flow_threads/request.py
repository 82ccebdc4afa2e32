"""Ask for the price of an apple, and print the answer."""

import os

import sluicegate

with sluicegate.BlockingClient(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client:
    own = client.queues.create(durable=False).name  # a temporary queue for the answers to this client
    with client.consumer(own) as answers, client.publisher() as questions:
        question = sluicegate.Message(b"apple", queue="prices", reply_to=f"#q/{own}", correlation=b"1", is_text=True)
        questions.publish(question)
        answer = answers.receive(timeout_s=30)
        answer.accept()
        print(f"apple: {answer.payload.decode()}")
