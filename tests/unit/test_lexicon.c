/* Forms of words beside what grammar books print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "corpus/lexicon.h"

static attn_lexicon words;

static int open_words(void **state) {
    *state = attn_arena_new(16 << 20);
    return attn_lexicon_read(&words, attn_lexicon_text, ATTN_LARGE_LEXICON, *state, NULL);
}

static int close_words(void **state) {
    attn_arena_free(*state);
    return 0;
}

static const attn_verb *verb(const char *infinitive) {
    const struct {
        const attn_verb *items;
        size_t count;
    } lists[] = {{words.acting.items, words.acting.count},
                 {words.alone.items, words.alone.count},
                 {words.going.items, words.going.count},
                 {words.giving.items, words.giving.count},
                 {words.saying.items, words.saying.count},
                 {words.be, 1},
                 {words.have, 1},
                 {words.can, 1},
                 {words.must, 1},
                 {words.want, 1}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l].count; i++)
            if (!strcmp(lists[l].items[i].infinitive.text, infinitive))
                return &lists[l].items[i];
    fail_msg("no verb %s", infinitive);
    return NULL;
}

/* je tu il nous vous ils, participle, je of the future */
static void test_french_verbs(void **state) {
    (void)state;
    static const char *const known[][9] = {
        {"aimer", "aime", "aimes", "aime", "aimons", "aimez", "aiment", "aimé", "aimerai"},
        {"manger", "mange", "manges", "mange", "mangeons", "mangez", "mangent", "mangé",
         "mangerai"},
        {"annoncer", "annonce", "annonces", "annonce", "annonçons", "annoncez", "annoncent",
         "annoncé", "annoncerai"},
        {"acheter", "achète", "achètes", "achète", "achetons", "achetez", "achètent", "acheté",
         "achèterai"},
        {"jeter", "jette", "jettes", "jette", "jetons", "jetez", "jettent", "jeté", "jetterai"},
        {"appeler", "appelle", "appelles", "appelle", "appelons", "appelez", "appellent", "appelé",
         "appellerai"},
        {"préférer", "préfère", "préfères", "préfère", "préférons", "préférez", "préfèrent",
         "préféré", "préférerai"},
        {"nettoyer", "nettoie", "nettoies", "nettoie", "nettoyons", "nettoyez", "nettoient",
         "nettoyé", "nettoierai"},
        {"envoyer", "envoie", "envoies", "envoie", "envoyons", "envoyez", "envoient", "envoyé",
         "enverrai"},
        {"finir", "finis", "finis", "finit", "finissons", "finissez", "finissent", "fini",
         "finirai"},
        {"vendre", "vends", "vends", "vend", "vendons", "vendez", "vendent", "vendu", "vendrai"},
        {"interrompre", "interromps", "interromps", "interrompt", "interrompons", "interrompez",
         "interrompent", "interrompu", "interromprai"},
        {"prendre", "prends", "prends", "prend", "prenons", "prenez", "prennent", "pris",
         "prendrai"},
        {"construire", "construis", "construis", "construit", "construisons", "construisez",
         "construisent", "construit", "construirai"},
        {"peindre", "peins", "peins", "peint", "peignons", "peignez", "peignent", "peint",
         "peindrai"},
        {"connaître", "connais", "connais", "connaît", "connaissons", "connaissez", "connaissent",
         "connu", "connaîtrai"},
        {"ouvrir", "ouvre", "ouvres", "ouvre", "ouvrons", "ouvrez", "ouvrent", "ouvert",
         "ouvrirai"},
        {"cueillir", "cueille", "cueilles", "cueille", "cueillons", "cueillez", "cueillent",
         "cueilli", "cueillerai"},
        {"dormir", "dors", "dors", "dort", "dormons", "dormez", "dorment", "dormi", "dormirai"},
        {"partir", "pars", "pars", "part", "partons", "partez", "partent", "parti", "partirai"},
        {"courir", "cours", "cours", "court", "courons", "courez", "courent", "couru", "courrai"},
        {"tenir", "tiens", "tiens", "tient", "tenons", "tenez", "tiennent", "tenu", "tiendrai"},
        {"voir", "vois", "vois", "voit", "voyons", "voyez", "voient", "vu", "verrai"},
        {"recevoir", "reçois", "reçois", "reçoit", "recevons", "recevez", "reçoivent", "reçu",
         "recevrai"},
        {"croire", "crois", "crois", "croit", "croyons", "croyez", "croient", "cru", "croirai"},
        {"suivre", "suis", "suis", "suit", "suivons", "suivez", "suivent", "suivi", "suivrai"},
        {"vivre", "vis", "vis", "vit", "vivons", "vivez", "vivent", "vécu", "vivrai"},
        {"convaincre", "convaincs", "convaincs", "convainc", "convainquons", "convainquez",
         "convainquent", "convaincu", "convaincrai"},
        {"battre", "bats", "bats", "bat", "battons", "battez", "battent", "battu", "battrai"},
        {"promettre", "promets", "promets", "promet", "promettons", "promettez", "promettent",
         "promis", "promettrai"},
        {"écrire", "écris", "écris", "écrit", "écrivons", "écrivez", "écrivent", "écrit",
         "écrirai"},
        {"dire", "dis", "dis", "dit", "disons", "dites", "disent", "dit", "dirai"},
        {"rire", "ris", "ris", "rit", "rions", "riez", "rient", "ri", "rirai"},
        {"aller", "vais", "vas", "va", "allons", "allez", "vont", "allé", "irai"},
        {"être", "suis", "es", "est", "sommes", "êtes", "sont", "été", "serai"},
        {"avoir", "ai", "as", "a", "avons", "avez", "ont", "eu", "aurai"},
        {"pouvoir", "peux", "peux", "peut", "pouvons", "pouvez", "peuvent", "pu", "pourrai"},
        {"vouloir", "veux", "veux", "veut", "voulons", "voulez", "veulent", "voulu", "voudrai"},
        {"devoir", "dois", "dois", "doit", "devons", "devez", "doivent", "dû", "devrai"},
        {"savoir", "sais", "sais", "sait", "savons", "savez", "savent", "su", "saurai"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const attn_verb *v = verb(known[i][0]);
        for (size_t p = 0; p < 6; p++)
            assert_string_equal(v->present[p].text, known[i][1 + p]);
        assert_string_equal(v->participle[0][0].text, known[i][7]);
        assert_string_equal(v->future[0].text, known[i][8]);
    }
    assert_true(verb("aller")->etre && verb("partir")->etre && !verb("courir")->etre);
    assert_string_equal(verb("prendre")->participle[FEMININE][PLURAL].text, "prises");
    assert_string_equal(verb("prendre")->participle[MASCULINE][PLURAL].text, "pris");
}

static const attn_noun *noun(const char *english) {
    for (size_t i = 0; i < words.nouns.count; i++)
        if (!strcmp(words.nouns.items[i].english[0].text, english))
            return &words.nouns.items[i];
    fail_msg("no noun %s", english);
    return NULL;
}

static void test_nouns(void **state) {
    (void)state;
    static const char *const known[][4] = {
        {"horse", "horses", "cheval", "chevaux"},
        {"cake", "cakes", "gâteau", "gâteaux"},
        {"nut", "nuts", "noix", "noix"},
        {"jewel", "jewels", "bijou", "bijoux"},
        {"nail", "nails", "clou", "clous"},
        {"mouse", "mice", "souris", "souris"},
        {"city", "cities", "ville", "villes"},
        {"box", "boxes", "boîte", "boîtes"},
        {"knife", "knives", "couteau", "couteaux"},
        {"toy", "toys", "jouet", "jouets"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const attn_noun *n = noun(known[i][0]);
        assert_string_equal(n->english[PLURAL].text, known[i][1]);
        assert_string_equal(n->french[SINGULAR].text, known[i][2]);
        assert_string_equal(n->french[PLURAL].text, known[i][3]);
    }
    assert_false(noun("owl")->french[0].vowel); /* le hibou */
    assert_true(noun("man")->french[0].vowel);  /* l'homme */
    assert_true(noun("heir")->english[0].vowel && !noun("university")->english[0].vowel);
}

static void test_adjectives(void **state) {
    (void)state;
    static const char *const known[][6] = {
        {"beautiful", "beau", "beaux", "belle", "belles", "bel"},
        {"old", "vieux", "vieux", "vieille", "vieilles", "vieil"},
        {"white", "blanc", "blancs", "blanche", "blanches", "blanc"},
        {"royal", "royal", "royaux", "royale", "royales", "royal"},
        {"red", "rouge", "rouges", "rouge", "rouges", "rouge"},
        {"expensive", "cher", "chers", "chère", "chères", "cher"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const attn_adjective *a = NULL;
        for (size_t k = 0; k < words.adjectives.count && !a; k++)
            if (!strcmp(words.adjectives.items[k].english.text, known[i][0]))
                a = &words.adjectives.items[k];
        assert_non_null(a);
        for (int g = 0; g < 2; g++)
            for (int n = 0; n < 2; n++)
                assert_string_equal(a->french[g][n].text, known[i][1 + 2 * g + n]);
        assert_string_equal(a->french_vowel.text, known[i][5]);
    }
}

static void test_every_kind_has_words(void **state) {
    (void)state;
    assert_true(words.nouns.count > 450 && words.adjectives.count > 180 &&
                words.acting.count > 140);
    for (size_t i = 0; i < words.acting.count; i++)
        for (const char *k = words.acting.items[i].kinds; *k; k++)
            assert_non_null(strchr("patflb", *k));
    for (size_t i = 0; i < words.nouns.count; i++)
        assert_non_null(strchr("patflb", words.nouns.items[i].kind));
}

/* Each lexicon has the words of the smaller one, and only that of en-fr-text has its classes. */
static void test_three_lexicons(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(16 << 20);
    attn_lexicon small, text;
    assert_int_equal(attn_lexicon_read(&small, attn_lexicon_text, ATTN_SMALL_LEXICON, arena, NULL),
                     ATTN_OK);
    assert_int_equal(attn_lexicon_read(&text, attn_lexicon_text, ATTN_TEXT_LEXICON, arena, NULL),
                     ATTN_OK);
    assert_int_equal(small.nouns.count, 53);
    assert_int_equal(words.nouns.count, 484);
    assert_int_equal(text.nouns.count, 496);
    assert_int_equal(text.nouns.common, 99);
    assert_int_equal(small.mass.count + words.mass.count + words.nouns.common, 0);
    assert_int_equal(text.mass.count, 46);
    assert_string_equal(small.names.items[0].english[0].text, "mary");
    assert_string_equal(text.names.items[text.names.common - 4].english[0].text, "Mary");
    assert_string_equal(text.postures.items[1].state[FEMININE][PLURAL].text, "debout");
    attn_arena_free(arena);
}

static void test_malformed_rows_are_refused(void **state) {
    (void)state;
    static const char auxiliaries[] = "[endings]\nslc re e e e e e e e r\n[auxiliaries]\n"
                                      "slc a |re\nslc a |re\nslc a |re\nslc a |re\nslc a |re\n";
    static const struct {
        const char *rest, *text;
    } wrong[] = {
        {"[verbs]\n", "line 9 does not read"},                /* no such class */
        {"[nouns]\nl cat chat m\n", "line 10 does not read"}, /* a cell is missing */
        {"[nouns]\nx cat chat m a\n", "line 10 does not read"},
        {"[acting]\n\nl eat mang|er f\n", "line 11 does not read"}, /* no such endings */
        {"slc a |re\n", "expected five auxiliaries"},
    };
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_lexicon out;
    char text[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        attn_error err;
        snprintf(text, sizeof text, "%s%s", auxiliaries, wrong[i].rest);
        assert_int_equal(attn_lexicon_read(&out, text, ATTN_LARGE_LEXICON, arena, &err), ATTN_EARG);
        assert_string_equal(err.text, wrong[i].text);
    }
    assert_int_equal(attn_lexicon_read(&out, auxiliaries, ATTN_LARGE_LEXICON, arena, NULL),
                     ATTN_OK);
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_french_verbs),   cmocka_unit_test(test_nouns),
        cmocka_unit_test(test_adjectives),     cmocka_unit_test(test_every_kind_has_words),
        cmocka_unit_test(test_three_lexicons), cmocka_unit_test(test_malformed_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, open_words, close_words);
}
