"""What belongs to no page: the switch of languages, and the login where the server asks for its token."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from dashboard import i18n
from dashboard.desk import LANGUAGE_COOKIE, AnyVisitor, Form, local_path
from dashboard.security import LOGIN_COOKIE

router = APIRouter()
YEAR = 365 * 86_400
WEEK = 7 * 86_400


@router.post("/language")
def switch_language(visitor: AnyVisitor, form: Form) -> Response:
    response = visitor.redirect(local_path(form.get("back")))
    if form.get("to") in i18n.LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, form.get("to"), max_age=YEAR, httponly=True, samesite="strict")
    return response


@router.get("/login")
def login_page(visitor: AnyVisitor) -> Response:
    return visitor.page("login.html", refused=False, back=local_path(visitor.request.query_params.get("back", "")))


@router.post("/login")
def login(visitor: AnyVisitor, form: Form) -> Response:
    guard = visitor.desk.guard
    if not guard.is_token(form.get("token").strip()):
        return visitor.page("login.html", status=403, refused=True, back=local_path(form.get("back")))
    response = visitor.redirect(local_path(form.get("back")))
    response.set_cookie(LOGIN_COOKIE, guard.login_cookie(), max_age=WEEK, httponly=True, samesite="strict")
    return response


@router.post("/logout")
def logout(visitor: AnyVisitor, form: Form) -> Response:
    response = visitor.redirect("/login")
    response.delete_cookie(LOGIN_COOKIE)
    return response
