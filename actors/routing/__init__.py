"""The topic router, which owns the subscription index, and the durable selectors of queues."""
