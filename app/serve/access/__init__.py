"""Authentication and permissions over HTTP.

gate         checks every request: identifies the user, and refuses routes without permission
permissions  the role that each route needs
caller       viewer, operator, admin; callers who are bound to namespaces
access_file  people, programs and groups: `entries` are its tables, `former` reads the forms of earlier versions
basic        names and `password`s; `token` has the tokens of programs; `rate_limit` their requests
oidc         sign-in with a provider: `sign_in`, `provider`, `sessions`
access       puts the gate before the API and the console
"""
