"""Who may see and do what over HTTP.

gate         every request passes it: finds out who asks, and whether the route is permitted
permissions  the role that each route needs
roles        viewer, operator, admin; users who are bound to namespaces
users        the file of users, checked by `basic`; `password` makes its lines
oidc         sign-in by a provider: `provider_file`, `sign_in`, `provider`, `claims`, `sessions`, `cookies`
access       puts the gate before the API and the console
"""
