"""Everything that a worker serves over HTTP. Each package may import the packages below it.

console       the pages; they call the API and import no other package but access and web
actions       actions on messages and destinations, jobs, the audit
dead_letters  finds dead letters
keys          idempotency keys
messages      the forms, checks and routes of messages
search        finds pending messages on all workers
access        users, roles and permissions
web           the server, its guards, the overview, metrics and health checks
"""
