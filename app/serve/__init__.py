"""What people and programs see over HTTP. Each package may import those below it.

console       the pages; they ask the API and import no other package but access and web
actions       actions on messages and destinations, jobs, the audit
dead_letters  finds dead letters
search        finds pending messages on all workers
access        users, roles and permissions
web           the server, what guards it, the overview, metrics and health checks
"""
