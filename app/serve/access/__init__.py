"""Authentication and permissions over HTTP.

gate         checks every request: identifies the user, and refuses routes without permission
permissions  the role that each route needs
caller       viewer, operator, admin; callers who are bound to namespaces
users        the file of users, checked by `basic`; `password` makes its lines
oidc         sign-in with a provider: `provider_file`, `sign_in`, `provider`, `claims`, `sessions`, `cookies`
access       puts the gate before the API and the console
"""
