"""The words of the demo corpus: English lemmas, their German lemmas and how both inflect.

The words stand in text tables, one lemma a line, and are read once into the tuples `NOUNS`,
`VERBS`, `ADJECTIVES` and `ADVERBS`.  Each English lemma has exactly one German lemma in its part
of speech, so that the German sentence is a function of the English one.

Nouns: ``child/children = das Kind, Kinder : tags``; the plural "-" marks a mass noun, the tag
"weak" a weak masculine (den Jungen), "gen:" an unusual genitive, "loc:" and "dir:" the
prepositions of a place.  Verbs: ``English forms | German forms | what they take``; "+up" is an
English particle, "~for" an English preposition, "an-rufen" a separable German verb.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NOUN_TABLES: dict[str, str] = {
    "person": """
        man/men = der Mann, Männer
        woman/women = die Frau, Frauen
        child/children = das Kind, Kinder : young
        boy = der Junge, Jungen : weak young
        girl = das Mädchen, Mädchen : young
        teacher = der Lehrer, Lehrer
        pupil = der Schüler, Schüler : young
        student = der Student, Studenten : weak
        doctor = der Arzt, Ärzte
        nurse = die Krankenschwester, Krankenschwestern
        neighbour = der Nachbar, Nachbarn : weak
        friend = der Freund, Freunde
        brother = der Bruder, Brüder : kin
        sister = die Schwester, Schwestern : kin
        mother = die Mutter, Mütter : kin
        father = der Vater, Väter : kin
        son = der Sohn, Söhne : kin
        daughter = die Tochter, Töchter : kin
        uncle = der Onkel, Onkel : kin
        aunt = die Tante, Tanten : kin
        grandmother = die Großmutter, Großmütter : kin
        grandfather = der Großvater, Großväter : kin
        baker = der Bäcker, Bäcker
        farmer = der Bauer, Bauern : weak
        policeman/policemen = der Polizist, Polizisten : weak
        lawyer = der Anwalt, Anwälte
        judge = der Richter, Richter
        painter = der Maler, Maler
        writer = der Schriftsteller, Schriftsteller
        singer = der Sänger, Sänger
        driver = der Fahrer, Fahrer
        waitress = die Kellnerin, Kellnerinnen
        chef = der Koch, Köche
        tourist = der Tourist, Touristen : weak
        customer = der Kunde, Kunden : weak
        guest = der Gast, Gäste
        colleague = der Kollege, Kollegen : weak
        boss = der Chef, Chefs : gen:Chefs
        king = der König, Könige
        queen = die Königin, Königinnen
        prince = der Prinz, Prinzen : weak
        princess = die Prinzessin, Prinzessinnen
        president = der Präsident, Präsidenten : weak
        soldier = der Soldat, Soldaten : weak
        engineer = der Ingenieur, Ingenieure
        worker = der Arbeiter, Arbeiter
        visitor = der Besucher, Besucher
        musician = der Musiker, Musiker
        actress = die Schauspielerin, Schauspielerinnen
        mayor = der Bürgermeister, Bürgermeister
        thief/thieves = der Dieb, Diebe
        hunter = der Jäger, Jäger
        gardener = der Gärtner, Gärtner
        fisherman/fishermen = der Fischer, Fischer
        pilot = der Pilot, Piloten : weak
        lady = die Dame, Damen
        secretary = die Sekretärin, Sekretärinnen
        dancer = die Tänzerin, Tänzerinnen
    """,
    "animal": """
        dog = der Hund, Hunde : pet
        cat = die Katze, Katzen : pet
        horse = das Pferd, Pferde : pet
        cow = die Kuh, Kühe : pet
        bird = der Vogel, Vögel
        mouse/mice = die Maus, Mäuse
        rabbit = das Kaninchen, Kaninchen : pet
        pig = das Schwein, Schweine : pet
        goat = die Ziege, Ziegen : pet
        duck = die Ente, Enten : pet
        lion = der Löwe, Löwen : weak
        tiger = der Tiger, Tiger
        bear = der Bär, Bären : weak
        wolf/wolves = der Wolf, Wölfe
        fox = der Fuchs, Füchse
        elephant = der Elefant, Elefanten : weak
        monkey = der Affe, Affen : weak
        donkey = der Esel, Esel : pet
        goose/geese = die Gans, Gänse : pet
        frog = der Frosch, Frösche
        snake = die Schlange, Schlangen
    """,
    "food": """
        apple = der Apfel, Äpfel : fruit
        pear = die Birne, Birnen : fruit
        cherry = die Kirsche, Kirschen : fruit
        banana = die Banane, Bananen : fruit
        orange = die Orange, Orangen : fruit
        strawberry = die Erdbeere, Erdbeeren : fruit
        lemon = die Zitrone, Zitronen : fruit
        potato/potatoes = die Kartoffel, Kartoffeln : cookable
        tomato/tomatoes = die Tomate, Tomaten : fruit
        carrot = die Karotte, Karotten : cookable
        onion = die Zwiebel, Zwiebeln
        cucumber = die Gurke, Gurken
        egg = das Ei, Eier : cookable gen:Eies
        cake = der Kuchen, Kuchen : bakeable
        sausage = die Wurst, Würste
        biscuit = der Keks, Kekse : bakeable
        pancake = der Pfannkuchen, Pfannkuchen
        pizza = die Pizza, Pizzas : bakeable
        soup = die Suppe, Suppen : cookable hot
        salad = der Salat, Salate
        roll = das Brötchen, Brötchen : bakeable
        bread = das Brot, - : bakeable
        cheese = der Käse, -
        meat = das Fleisch, - : cookable
        fish = der Fisch, - : cookable
        ham = der Schinken, -
        rice = der Reis, - : cookable
        butter = die Butter, -
        chocolate = die Schokolade, -
        honey = der Honig, -
    """,
    "drink": """
        water = das Wasser, -
        milk = die Milch, -
        coffee = der Kaffee, -
        tea = der Tee, -
        juice = der Saft, -
        beer = das Bier, -
        wine = der Wein, -
        lemonade = die Limonade, -
    """,
    "thing clothes small": """
        hat = der Hut, Hüte
        coat = der Mantel, Mäntel : worn
        shirt = das Hemd, Hemden : worn
        dress = das Kleid, Kleider : worn
        shoe = der Schuh, Schuhe : worn pair
        jacket = die Jacke, Jacken : worn
        skirt = der Rock, Röcke : worn
        sweater = der Pullover, Pullover : worn
        scarf/scarves = der Schal, Schals : gen:Schals
        glove = der Handschuh, Handschuhe : worn pair
        belt = der Gürtel, Gürtel
        tie = die Krawatte, Krawatten
        sock = die Socke, Socken : worn pair
    """,
    "thing small": """
        key = der Schlüssel, Schlüssel
        knife/knives = das Messer, Messer : cutlery
        fork = die Gabel, Gabeln : cutlery
        spoon = der Löffel, Löffel : cutlery
        umbrella = der Regenschirm, Regenschirme
        ring = der Ring, Ringe
        camera = die Kamera, Kameras : machine
        ball = der Ball, Bälle : toy
        doll = die Puppe, Puppen : toy
        blanket = die Decke, Decken
        pillow = das Kissen, Kissen
        gift = das Geschenk, Geschenke : openable
        hammer = der Hammer, Hämmer
        rope = das Seil, Seile
        brush = die Bürste, Bürsten
        towel = das Handtuch, Handtücher
        wallet = die Geldbörse, Geldbörsen : openable
        pen = der Stift, Stifte
        needle = die Nadel, Nadeln
        ticket = die Fahrkarte, Fahrkarten
        stamp = die Briefmarke, Briefmarken
        coin = die Münze, Münzen
        photo = das Foto, Fotos
        flower = die Blume, Blumen : plant
        rose = die Rose, Rosen : plant
    """,
    "thing": """
        bag = die Tasche, Taschen : openable container
        cup = die Tasse, Tassen : breakable container
        plate = der Teller, Teller : breakable
        glass = das Glas, Gläser : breakable container
        bottle = die Flasche, Flaschen : breakable openable container
        vase = die Vase, Vasen : breakable container
        basket = der Korb, Körbe : container
        suitcase = der Koffer, Koffer : openable container
        box = die Kiste, Kisten : openable container
        bucket = der Eimer, Eimer : container
        lamp = die Lampe, Lampen : machine
        chair = der Stuhl, Stühle : furniture surface
        table = der Tisch, Tische : furniture surface
        bed = das Bett, Betten : furniture surface
        sofa = das Sofa, Sofas : furniture surface
        shelf/shelves = das Regal, Regale : furniture surface
        cupboard = der Schrank, Schränke : furniture openable surface
        mirror = der Spiegel, Spiegel : breakable
        carpet = der Teppich, Teppiche : surface
        picture = das Bild, Bilder : artwork
        piano = das Klavier, Klaviere : instrument
        guitar = die Gitarre, Gitarren : instrument
        violin = die Geige, Geigen : instrument
        flute = die Flöte, Flöten : instrument
        trumpet = die Trompete, Trompeten : instrument
        drum = die Trommel, Trommeln : instrument
        phone = das Telefon, Telefone : machine
        computer = der Computer, Computer : machine
        television = der Fernseher, Fernseher : machine
        radio = das Radio, Radios : machine
        clock = die Uhr, Uhren : machine
        candle = die Kerze, Kerzen
        flag = die Fahne, Fahnen
        bell = die Glocke, Glocken
        ladder = die Leiter, Leitern
        stone = der Stein, Steine
        plant = die Pflanze, Pflanzen : plant
    """,
    "part": """
        door = die Tür, Türen : openable
        window = das Fenster, Fenster : openable breakable
        gate = das Tor, Tore : openable
        wall = die Wand, Wände
        roof = das Dach, Dächer
    """,
    "document": """
        book = das Buch, Bücher : written told paper
        letter = der Brief, Briefe : written openable answerable paper
        newspaper = die Zeitung, Zeitungen : paper
        magazine = die Zeitschrift, Zeitschriften : paper
        novel = der Roman, Romane : written paper
        poem = das Gedicht, Gedichte : written learnt paper
        report = der Bericht, Berichte : written paper
        contract = der Vertrag, Verträge : signed written paper
        postcard = die Postkarte, Postkarten : written paper
        article = der Artikel, Artikel : written paper
        story = die Geschichte, Geschichten : written told heard
        recipe = das Rezept, Rezepte : written paper
        message = die Nachricht, Nachrichten : written answerable heard
        diary = das Tagebuch, Tagebücher : paper
        dictionary = das Wörterbuch, Wörterbücher : paper
        list = die Liste, Listen : written paper
        essay = der Aufsatz, Aufsätze : written paper
    """,
    "vehicle": """
        car = das Auto, Autos : private
        bus/buses = der Bus, Busse : gen:Busses public
        train = der Zug, Züge : public
        bicycle = das Fahrrad, Fahrräder : private
        ship = das Schiff, Schiffe : public
        boat = das Boot, Boote : private
        truck = der Lastwagen, Lastwagen : private
        tram = die Straßenbahn, Straßenbahnen : public
        plane = das Flugzeug, Flugzeuge : flying
        taxi = das Taxi, Taxis : public
        motorcycle = das Motorrad, Motorräder : private
        tractor = der Traktor, Traktoren : private
    """,
    "place": """
        house = das Haus, Häuser : building loc:in/in dir:in
        garden = der Garten, Gärten : loc:in/in dir:in
        school = die Schule, Schulen : building loc:in/in dir:zu
        church = die Kirche, Kirchen : building loc:in/in dir:in
        hospital = das Krankenhaus, Krankenhäuser : building loc:in/in dir:in
        station = der Bahnhof, Bahnhöfe : building loc:at/an dir:zu
        park = der Park, Parks : gen:Parks loc:in/in dir:in
        museum = das Museum, Museen : building loc:in/in dir:in
        library = die Bibliothek, Bibliotheken : building loc:in/in dir:in
        restaurant = das Restaurant, Restaurants : building loc:in/in dir:in
        hotel = das Hotel, Hotels : building loc:in/in dir:zu
        office = das Büro, Büros : room loc:in/in dir:in
        shop = das Geschäft, Geschäfte : building loc:in/in dir:in
        market = der Markt, Märkte : loc:at/auf dir:zu
        forest = der Wald, Wälder : loc:in/in dir:in
        city = die Stadt, Städte : loc:in/in dir:in
        village = das Dorf, Dörfer : loc:in/in dir:in
        street = die Straße, Straßen : loc:on/auf dir:auf
        bridge = die Brücke, Brücken : building loc:on/auf dir:zu
        castle = das Schloss, Schlösser : building loc:in/in dir:zu
        factory = die Fabrik, Fabriken : building loc:in/in dir:zu
        theatre = das Theater, Theater : building loc:in/in dir:in
        bakery = die Bäckerei, Bäckereien : building loc:in/in dir:zu
        beach = der Strand, Strände : loc:on/an dir:an
        airport = der Flughafen, Flughäfen : building loc:at/an dir:zu
        island = die Insel, Inseln : loc:on/auf dir:auf
        farm = der Bauernhof, Bauernhöfe : loc:on/auf dir:auf
        kitchen = die Küche, Küchen : room loc:in/in dir:in
        room = das Zimmer, Zimmer : room loc:in/in dir:in
        cellar = der Keller, Keller : room loc:in/in dir:in
        bathroom = das Badezimmer, Badezimmer : room loc:in/in dir:in
        bedroom = das Schlafzimmer, Schlafzimmer : room loc:in/in dir:in
        classroom = das Klassenzimmer, Klassenzimmer : room loc:in/in dir:in
        bank = die Bank, Banken : building loc:in/in dir:zu
        cinema = das Kino, Kinos : building loc:in/in dir:in
        stable = der Stall, Ställe : building loc:in/in dir:in
        tent = das Zelt, Zelte : loc:in/in dir:in
        lake = der See, Seen : gen:Sees loc:at/an dir:an
        river = der Fluss, Flüsse : loc:at/an dir:an
        field = das Feld, Felder : loc:in/auf dir:auf
        mountain = der Berg, Berge : loc:on/auf dir:auf
        balcony = der Balkon, Balkone : room loc:on/auf dir:auf
        tower = der Turm, Türme : building loc:in/in dir:zu
        harbour = der Hafen, Häfen : loc:in/in dir:zu
        university = die Universität, Universitäten : loc:at/an dir:zu
        pharmacy = die Apotheke, Apotheken : building loc:in/in dir:zu
    """,
    "thought": """
        question = die Frage, Fragen : answerable
        idea = die Idee, Ideen : told
        plan = der Plan, Pläne : told
        problem = das Problem, Probleme : told
        mistake = der Fehler, Fehler : told
        rule = die Regel, Regeln : learnt told
        word = das Wort, Wörter : learnt
        puzzle = das Rätsel, Rätsel
        sentence = der Satz, Sätze : learnt
        language = die Sprache, Sprachen : learnt
        song = das Lied, Lieder : learnt heard written
        secret = das Geheimnis, Geheimnisse : told
        film = der Film, Filme : shown gen:Films
        game = das Spiel, Spiele : event
        concert = das Konzert, Konzerte : event
        exam = die Prüfung, Prüfungen : event
        meeting = die Besprechung, Besprechungen : event
        journey = die Reise, Reisen : event
        party = die Feier, Feiern : event
        lunch = das Mittagessen, - : meal
        breakfast = das Frühstück, - : meal
        dinner = das Abendessen, - : meal
        colour = die Farbe, Farben : attribute
        price = der Preis, Preise : attribute
        owner = der Besitzer, Besitzer : attribute
    """,
    "time": """
        day = der Tag, Tage
        week = die Woche, Wochen
        month = der Monat, Monate
        year = das Jahr, Jahre
        hour = die Stunde, Stunden
        minute = die Minute, Minuten
        morning = der Morgen, Morgen
        evening = der Abend, Abende
        night = die Nacht, Nächte
        summer = der Sommer, Sommer
        winter = der Winter, Winter
    """,
}

# Frames: trans (accusative), dat, prep (German preposition and case first), give (dative person
# and accusative), rest (intransitive, with or without a place), motion (with a destination),
# ride (intransitive, public vehicles), event, belong, cost, put (it on the table), be, and the
# verbs before that-clauses, whether-clauses and infinitives.  "static" verbs have no English
# progressive, "state" ones no time either; "animal" verbs may also have an animal as subject.
_VERB_TABLES: dict[str, str] = {
    "trans": """
        buy bought bought | kaufen | thing food drink paper private
        sell sold sold | verkaufen | thing food paper private pet
        find found found | finden findet fand gefunden | small document pet bag : static animal
        lose lost lost | verlieren verliert verlor verloren | small bag : static
        see saw seen | sehen sieht sah gesehen | person animal vehicle place thing : static animal
        hear heard heard | hören | person animal heard bell radio : static animal
        read | lesen liest las gelesen | document
        write wrote written | schreiben schreibt schrieb geschrieben | written
        eat ate eaten | essen isst aß gegessen | food
        drink drank drunk | trinken trinkt trank getrunken | drink
        cook | kochen | cookable
        bake | backen backt backte gebacken | bakeable
        cut | schneiden schneidet schnitt geschnitten | bread cheese meat cake fruit onion rope
        wash | waschen wäscht wusch gewaschen | clothes private fruit potato plate cup glass dog
        clean | putzen | room window lamp shoe mirror table
        repair | reparieren | vehicle machine furniture roof gate
        build built built | bauen | building boat ship shelf table gate
        draw drew drawn | zeichnen | animal person flower house castle ship tower bridge
        carry | tragen trägt trug getragen | container instrument small chair table
        take took taken | nehmen nimmt nahm genommen \
            | clothes fruit key coin cutlery ticket gift pen bag bottle cup plate glass paper
        look ~for | suchen | person pet small document bag hotel
        need | brauchen | small machine furniture paper doctor lawyer private : state
        have had had | haben hat hatte gehabt | pet machine private instrument garden small : state
        open | öffnen | openable
        close | schließen schließt schloss geschlossen | openable
        break broke broken | zerbrechen zerbricht zerbrach zerbrochen | breakable
        steal stole stolen | stehlen stiehlt stahl gestohlen | small private artwork instrument pet
        hide hid hidden | verstecken | small paper bag box bottle
        know knew known | kennen kennt kannte gekannt | person place song recipe film rule : state
        love | lieben | person pet city garden island song : state animal
        like | mögen mag mochte gemocht | person animal food drink place film : state
        visit | besuchen | person museum castle city village island church school
        meet met met | treffen trifft traf getroffen | person
        greet | begrüßen | person
        ask | fragen | person
        hug | umarmen | person pet
        kiss | küssen | person
        photograph | fotografieren | person animal building mountain lake flower
        push | schieben schiebt schob geschoben | private furniture box piano
        pull | ziehen zieht zog gezogen \
            | box boat rope donkey basket furniture suitcase private horse cow
        learn | lernen | learnt
        understand understood understood | verstehen versteht verstand verstanden \
            | learnt question document film problem puzzle person : state
        forget forgot forgotten | vergessen vergisst vergaß vergessen \
            | small learnt document event bag : static
        describe | beschreiben beschreibt beschrieb beschrieben | person place told picture thing
        translate | übersetzen übersetzt übersetzte übersetzt | written learnt
        answer | beantworten | answerable
        sign | unterschreiben unterschreibt unterschrieb unterschrieben | signed letter report list
        order | bestellen | food drink book furniture taxi
        borrow | aus-leihen leiht lieh geliehen \
            | book novel dictionary magazine pen private hammer ladder instrument umbrella tent
        rent | mieten | house office private castle factory shop tent
        use | benutzen | machine hammer knife dictionary ladder brush towel bicycle
        hold held held | halten hält hielt gehalten | small container rope flag ladder
        touch | berühren | pet wall door picture instrument plant stone mirror
        feed fed fed | füttern | animal
        catch caught caught | fangen fängt fing gefangen | animal ball thief : animal
        drive drove driven | fahren fährt fuhr gefahren | car truck bus tractor taxi
        turn +on | ein-schalten | lamp phone computer television radio camera
        turn +off | aus-schalten | lamp phone computer television radio camera
        call | an-rufen ruft rief gerufen | person
        invite | ein-laden lädt lud geladen | person
        pick +up | ab-holen | person gift ticket
        throw threw thrown +away | weg-werfen wirft warf geworfen | small paper food
        put +on | an-ziehen zieht zog gezogen | worn
        take took taken +off | aus-ziehen zieht zog gezogen | worn
        choose chose chosen | aus-wählen | small document food furniture
        prepare | vor-bereiten bereitet bereitete bereitet | event meal
        look ~at | betrachten | artwork small paper animal building
        tidy tidied tidied +up | auf-räumen | room
        write wrote written +down | auf-schreiben schreibt schrieb geschrieben \
            | word sentence song poem rule recipe question idea plan
        pack | ein-packen | small bottle paper
        unpack | aus-packen | suitcase bag box gift basket
        cancel cancelled cancelled | ab-sagen | event
        wake woke woken +up | auf-wecken | person pet : animal
        win won won | gewinnen gewinnt gewann gewonnen \
            | game car bicycle motorcycle camera computer television : static
        discover | entdecken | island mistake secret animal castle village lake : static
        solve | lösen | problem puzzle
        destroy | zerstören | castle factory tower vehicle letter picture bridge
        admire | bewundern | person artwork building dress garden horse
        protect | beschützen | person pet : animal
        save | retten | person pet
        taste | probieren | food drink
        count | zählen | coin animal stamp book bottle plate glass ticket tourist guest child
        check | überprüfen | vehicle machine contract ticket list report price
        practise | üben | song sentence poem
        discuss | besprechen bespricht besprach besprochen | told event report contract film price
        sew sewed sewn | nähen | dress shirt skirt blanket pillow flag coat
        watch | beobachten | animal person vehicle : animal
        plan planned planned | planen | event
        paint | malen | artwork flower animal
    """,
    "dat": """
        help | helfen hilft half geholfen | person pet
        thank | danken | person
        trust | vertrauen | person pet : state
        follow | folgen | person animal car : sein animal
        congratulate | gratulieren | person
        obey | gehorchen gehorcht gehorchte gehorcht | person
        listen ~to | zu-hören | person
        forgive forgave forgiven | verzeihen verzeiht verzieh verziehen | person : static
        believe | glauben | person : state
    """,
    "prep": """
        wait ~for | warten | auf acc person public plane
        think thought thought ~of | denken denkt dachte gedacht | an acc person event
        talk ~about | sprechen spricht sprach gesprochen | über acc person event told document film
        dream ~of | träumen \
            | von dat person journey island animal private city beach garden : static
        laugh ~at | lachen | über acc mistake story person picture film
        look ~after | auf-passen | auf acc pet child house garden suitcase
        play ~with | spielen | mit dat toy pet young : animal
        argue ~with | streiten streitet stritt gestritten | mit dat person
        take took taken ~part~in | teil-nehmen nimmt nahm genommen | an dat event
        work ~with | zusammen-arbeiten | mit dat person
        dance ~with | tanzen | mit dat person
    """,
    "give": """
        give gave given | geben gibt gab gegeben | small paper food bottle glass
        show showed shown | zeigen | small paper picture room house garden animal
        send sent sent | schicken | written small
        bring brought brought | bringen bringt brachte gebracht | small food paper plate cup
        lend lent lent | leihen leiht lieh geliehen | small paper private hammer ladder
        offer | an-bieten bietet bot geboten | food drink chair bicycle
        recommend | empfehlen empfiehlt empfahl empfohlen \
            | hotel restaurant doctor lawyer book novel film museum
        explain | erklären | learnt problem plan question game mistake contract
        tell told told | erzählen | story secret
        promise | versprechen verspricht versprach versprochen | small journey pet bicycle
    """,
    "rest": """
        sleep slept slept | schlafen schläft schlief geschlafen | : animal
        sit sat sat | sitzen sitzt saß gesessen | : animal
        stand stood stood | stehen steht stand gestanden | : animal
        live | wohnen | : state
        work | arbeiten |
        play | spielen | : animal
        swim swam swum | schwimmen schwimmt schwamm geschwommen | : sein animal nowhere
        dance | tanzen |
        sing sang sung | singen singt sang gesungen |
        laugh | lachen |
        cry | weinen |
        smile | lächeln |
        wait | warten | : animal
        stay | bleiben bleibt blieb geblieben | : sein
        eat ate eaten | essen isst aß gegessen |
        get got got +up | auf-stehen steht stand gestanden | : sein nowhere
        wake woke woken +up | auf-wachen | : sein animal nowhere
        fall fell fallen +asleep | ein-schlafen schläft schlief geschlafen | : sein animal
        arrive | an-kommen kommt kam gekommen | : sein located
    """,
    "motion": """
        go went gone | gehen geht ging gegangen | : sein
        run ran run | laufen läuft lief gelaufen | : sein animal
        come came come | kommen kommt kam gekommen | : sein
        travel travelled travelled | reisen | : sein
        hurry | eilen | : sein
        come came come +back | zurück-kommen kommt kam gekommen | : sein
        return | zurück-kehren | : sein
    """,
    "ride": """
        arrive | an-kommen kommt kam gekommen | : sein
        depart | ab-fahren fährt fuhr gefahren | : sein
        stop stopped stopped | an-halten hält hielt gehalten |
    """,
    "event": """
        begin began begun | beginnen beginnt begann begonnen |
        end | enden |
    """,
    "belong": """
        belong ~to | gehören gehört gehörte gehört | : static
    """,
    "cost": """
        cost cost cost | kosten | : static
    """,
    "put": """
        put | legen | small paper
    """,
    "be": """
        be was been | sein ist war gewesen | : sein static
    """,
    "that": """
        know knew known | wissen weiß wusste gewusst | : static
        say said said | sagen |
        think thought thought | denken denkt dachte gedacht | : static
        hope | hoffen | : static
        believe | glauben | : static
    """,
    "whether": """
        know knew known | wissen weiß wusste gewusst | : static
        ask | fragen |
    """,
    "infinitive": """
        try tried tried | versuchen |
        forget forgot forgotten | vergessen vergisst vergaß vergessen |
        hope | hoffen |
        begin began begun | beginnen beginnt begann begonnen |
        promise | versprechen verspricht versprach versprochen |
        decide | beschließen beschließt beschloss beschlossen |
    """,
}

# English positive (comparative) | German positive[/stem before an ending] (comparative) | nouns.
# Without a comparative: "more X" and X + er.
_ADJECTIVE_TABLE = """
    old older | alt älter | person animal thing document place vehicle
    young younger | jung jünger | person animal
    new newer | neu neuer | thing vehicle document building room part plan rule
    big bigger | groß größer | animal thing place vehicle fruit part
    small smaller | klein kleiner | animal thing place vehicle young fruit part
    good better | gut besser | person food drink document idea plan film
    bad worse | schlecht schlechter | film idea plan document
    beautiful | schön | colour clothes thing place animal song flower dancer actress princess
    ugly uglier | hässlich | colour clothes thing building animal
    friendly friendlier | freundlich | owner person
    happy happier | glücklich | person
    sad sadder | traurig | person story film song
    tired | müde müder | person animal
    hungry hungrier | hungrig | person animal
    rich richer | reich | owner person city
    poor poorer | arm ärmer | person
    strong stronger | stark stärker | person animal coffee
    clever cleverer | klug klüger | person pet monkey fox
    lazy lazier | faul | owner person pet
    brave braver | mutig | person
    famous | berühmt | owner person place film song artwork novel
    honest | ehrlich | owner person
    nervous | nervös | person pet
    polite | höflich | owner person
    curious | neugierig | person animal
    proud prouder | stolz | person
    strict stricter | streng | teacher doctor judge policeman lawyer boss king queen kin rule
    sick sicker | krank kränker | person animal
    healthy healthier | gesund gesünder | person animal
    angry angrier | wütend | owner person animal
    shy shyer | schüchtern | person animal
    nice nicer | nett | person
    funny funnier | lustig | person story film song game book
    wild wilder | wild | animal
    dangerous | gefährlich | animal street journey game mountain river
    brown | braun | animal clothes container furniture
    black | schwarz schwärzer | animal clothes thing vehicle
    white | weiß | animal clothes thing building vehicle part
    red redder | rot röter | clothes thing vehicle part
    blue bluer | blau | clothes thing vehicle part
    green greener | grün | clothes thing vehicle part
    yellow | gelb | clothes thing vehicle part
    grey greyer | grau | animal clothes building
    fresh fresher | frisch | food milk water juice
    delicious | lecker leckerer | food meal
    sweet sweeter | süß | fruit juice wine lemonade tea cake biscuit
    sour | sauer/saur saurer | apple cherry orange lemon wine milk
    ripe riper | reif | fruit
    hot hotter | heiß | milk water tea coffee hot
    cold colder | kalt kälter | drink soup room
    warm warmer | warm wärmer | clothes room blanket milk bread
    cheap cheaper | billig | food thing vehicle hotel restaurant
    expensive | teuer/teur teurer | thing vehicle hotel restaurant food wine
    heavy heavier | schwer | thing box
    broken | kaputt | machine vehicle furniture instrument part
    useful | nützlich | machine dictionary hammer ladder rope bag umbrella plan idea knife book
    dirty dirtier | schmutzig | clothes container room street part river plate vehicle pet
    wet wetter | nass nasser | clothes pet blanket towel street
    dry drier | trocken/trocken trockener | clothes blanket towel bread
    round rounder | rund | table box mirror carpet tower window basket
    modern | modern | building furniture machine vehicle room city
    strange stranger | seltsam | owner person colour story idea message letter film animal
    interesting | interessant | document film city museum place question language
    boring | langweilig | document film concert exam meeting
    important | wichtig | document rule question event plan word message
    difficult | schwierig | question exam problem word sentence language song
    easy easier | einfach | question exam problem word sentence language song game recipe
    long longer | lang länger | document film journey meeting concert street river bridge rope \
        skirt dress coat scarf
    short shorter | kurz kürzer | document film journey meeting concert street skirt dress word
    wrong | falsch | word sentence key list ticket price
    correct | richtig | word sentence price
    quiet quieter | ruhig | place child pet
    loud louder | laut | city street bell radio restaurant animal child guest clock
    dark darker | dunkel/dunkl dunkler | colour room forest street church castle stable night
    empty emptier | leer | container room building street cupboard bus train
    full fuller | voll | container bus train tram restaurant cinema
    narrow narrower | eng | street room skirt
    wide wider | breit | street river bed door bridge sofa
    deep deeper | tief | lake river
    high higher | hoch/hoh höher | mountain tower wall price ladder
    bright brighter | hell | colour room lamp candle
    lonely lonelier | einsam | person island farm street
    tiny tinier | winzig | mouse island village room key frog coin
"""

_ADVERB_TABLES: dict[str, str] = {
    "past": """
        yesterday = gestern
        recently = neulich
    """,
    "future": """
        tomorrow = morgen
        soon = bald
        later = später
    """,
    "now": """
        now = jetzt
        today = heute
    """,
    "frequency": """
        often = oft
        always = immer
        sometimes = manchmal
        never = nie
        rarely = selten
        usually = meistens
        still = immer noch
    """,
    "perfect": """
        already = schon
        just = gerade
    """,
    "manner": """
        quickly = schnell
        slowly = langsam
        quietly = leise
        carefully = vorsichtig
        together = zusammen
        alone = allein
        immediately = sofort
        again = wieder
    """,
    "comment": """
        unfortunately = leider
        perhaps = vielleicht
        fortunately = zum Glück
        probably = wahrscheinlich
        suddenly = plötzlich
        finally = schließlich
        surprisingly = überraschenderweise
        naturally = natürlich
    """,
    "here": """
        here = hier
        there = dort
        outside = draußen
        upstairs = oben
        downstairs = unten
        everywhere = überall
        outdoors = im Freien
    """,
    "degree": """
        very = sehr
        quite = ziemlich
        really = wirklich
        too = zu
        extremely = äußerst
    """,
}


def _entries(text: str) -> dict[str, str]:
    """The entries of a dictionary written as "english=german"."""
    return dict(entry.split("=") for entry in text.split())


FUNCTION_WORDS: dict[str, str] = _entries(
    """
    the=der a=ein an=ein this=dieser these=dieser every=jeder which=welcher no=kein some=einige
    many=viele several=mehrere my=mein our=unser your=Ihr his=sein her=ihr their=ihr its=sein
    I=ich me=ich you=Sie he=er him=er she=sie it=es they=sie them=sie we=wir us=wir who=wer
    whom=wer whose=wessen what=was where=wo when=wann why=warum how=wie not=nicht cannot=können
    am=sein is=sein are=sein was=sein were=sein be=sein been=sein do=tun does=tun did=tun
    has=haben have=haben had=haben will=werden can=können must=müssen should=sollen may=dürfen
    would=würden want=wollen wants=wollen wanted=wollen to=zu and=und but=aber or=oder
    because=weil although=obwohl if=wenn whether=ob could=können able=fähig allowed=erlaubt
    one=ein that=dass while=während before=bevor as=wie than=als in=in on=auf at=an under=unter
    behind=hinter with=mit for=für
    of=von about=über after=nach next=neben up=auf off=aus away=weg down=ab back=zurück
    more=mehr please=bitte ago=vor last=letzter part=Teil
    there=dort asleep=ein nobody=niemand somebody=jemand
    put=legen puts=legen know=wissen knows=wissen knew=wissen say=sagen says=sagen said=sagen
    try=versuchen tries=versuchen tried=versuchen hope=hoffen hopes=hoffen hoped=hoffen
    think=denken thinks=denken thought=denken decide=beschließen decided=beschließen
    begin=beginnen begins=beginnen began=beginnen cost=kosten costs=kosten belong=gehören
    belongs=gehören belonged=gehören o'clock=Uhr half=halb past=nach euro=Euro euros=Euro
    quarter=Viertel front=vor moment=Moment
    """
)

NUMBER_WORDS: dict[str, str] = _entries(
    """
    two=zwei three=drei four=vier five=fünf six=sechs seven=sieben eight=acht nine=neun ten=zehn
    eleven=elf twelve=zwölf
    """
)

ORDINALS: dict[str, str] = _entries(
    """
    first=ersten second=zweiten third=dritten fourth=vierten fifth=fünften sixth=sechsten
    seventh=siebten eighth=achten ninth=neunten tenth=zehnten eleventh=elften twelfth=zwölften
    """
)

MONTHS: dict[str, str] = _entries(
    """
    January=Januar February=Februar March=März April=April May=Mai June=Juni July=Juli
    August=August September=September October=Oktober November=November December=Dezember
    """
)

WEEKDAYS: dict[str, str] = _entries(
    """
    Monday=Montag Tuesday=Dienstag Wednesday=Mittwoch Thursday=Donnerstag Friday=Freitag
    Saturday=Samstag Sunday=Sonntag
    """
)

_GENDERS = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """One noun in both languages; a mass noun has no plurals ("")."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str  # "m", "f" or "n"
    genitive: str
    weak: bool
    classes: frozenset[str]
    location: tuple[str, str] = ("", "")  # English and German preposition of place
    direction: str = ""  # German preposition of "to the ..."

    @property
    def mass(self) -> bool:
        return not self.english_plural


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """One verb in both languages with the forms that cannot be computed from others."""

    english: str
    past: str
    participle: str
    particle: str  # English adverb particle ("up"), or ""
    preposition: str  # English preposition ("for"), or ""
    german: str  # infinitive without the separable prefix
    prefix: str  # German separable prefix, or ""
    third: str  # er ...
    preterite: str  # er ... (without the prefix)
    german_participle: str  # with the prefix
    frame: str
    german_preposition: str
    case: str  # of the (last) object
    objects: tuple[str, ...]
    auxiliary: str  # "haben" or "sein"
    flags: frozenset[str]

    @property
    def lemma(self) -> str:
        """The English dictionary form, such as "look for"."""
        return " ".join(filter(None, (self.english, self.particle, self.preposition)))

    @property
    def german_lemma(self) -> str:
        return self.prefix + self.german


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """One adjective in both languages."""

    english: str
    english_comparative: str
    german: str
    german_comparative: str
    stem: str  # the German form before an ending (teuer: teur-)
    classes: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """One adverb in both languages and its kind ("past", "frequency", "manner", ...)."""

    english: str
    german: str
    kind: str


def _lines(table: str) -> Iterator[str]:
    for line in table.replace("\\\n", " ").splitlines():
        if line.strip():
            yield line.strip()


def _english_plural(noun: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def weak_form(noun: str) -> str:
    """The form of a weak masculine outside the nominative singular: Junge, Jungen."""
    return noun + ("n" if re.search(r"(e|er|ar)$", noun) else "en")


def _genitive(noun: str, gender: str, weak: bool) -> str:
    if gender == "f":
        return noun
    if weak:
        return weak_form(noun)
    if noun.endswith("nis"):
        return noun + "ses"
    if re.search(r"(s|ß|x|z|sch)$", noun):
        return noun + "es"
    one_syllable = len(re.findall(r"[aeiouäöüy]+", noun.lower())) == 1
    return noun + ("es" if one_syllable and re.search(r"(ch|[^aeiouh])$", noun) else "s")


def _noun(line: str, classes: list[str]) -> Noun:
    words, _, tag_text = line.partition(" : ")
    english, _, german = words.partition(" = ")
    singular, _, plural = english.partition("/")
    article, german_singular, german_plural = german.replace(",", "").split()
    tags = tag_text.split()
    values = dict(tag.split(":") for tag in tags if ":" in tag)
    gender, weak, mass = _GENDERS[article], "weak" in tags, german_plural == "-"
    location = values.get("loc", "/").split("/")
    return Noun(
        english=singular,
        english_plural="" if mass else plural or _english_plural(singular),
        german=german_singular,
        german_plural="" if mass else german_plural,
        gender=gender,
        genitive=values.get("gen") or _genitive(german_singular, gender, weak),
        weak=weak,
        classes=frozenset([*classes, singular, *(tag for tag in tags if ":" not in tag)]),
        location=(location[0], location[1]),
        direction=values.get("dir", ""),
    )


def _english_past(verb: str) -> str:
    if verb in ("read", "cut", "put"):
        return verb
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    if verb == "hug":
        return "hugged"
    return verb + "ed"


def _needs_e(stem: str) -> bool:
    """Whether -t and -te need a linking e: arbeitet, öffnet, but wohnt, lernt, umarmt."""
    return bool(re.search(r"[td]$|[^lrhmnaeiouäöü][mn]$", stem))


def _participle(infinitive: str, prefix: str, stem: str) -> str:
    bare = re.match(r"(be|er|ver|zer|ent|emp|über|unter|umarm)", infinitive)
    core = stem + ("et" if _needs_e(stem) else "t")
    no_ge = infinitive.endswith("ieren") or (bare and infinitive not in ("beten", "retten"))
    return prefix + ("" if no_ge else "ge") + core


def _german_forms(text: str) -> tuple[str, str, str, str, str]:
    """Infinitive, prefix, third person, preterite and participle of "an-rufen ruft rief ..."."""
    first, *parts = text.split()
    prefix, _, infinitive = first.rpartition("-")
    if len(parts) == 3:
        third, preterite, participle = parts
        return infinitive, prefix, third, preterite, prefix + participle
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    link = "e" if _needs_e(stem) else ""
    participle = _participle(infinitive, prefix, stem)
    return infinitive, prefix, f"{stem}{link}t", f"{stem}{link}te", participle


def _verb(line: str, frame: str) -> Verb:
    english, german, rest = (field.strip() for field in line.split("|"))
    words = [word for word in english.split() if word[0] not in "+~"]
    marks = [word for word in english.split() if word[0] in "+~"]
    taken, _, flag_text = rest.partition(":")
    objects, flags = taken.split(), frozenset(flag_text.split())
    preposition, case = (objects[0], objects[1]) if frame == "prep" else ("", "")
    infinitive, prefix, third, preterite, participle = _german_forms(german)
    return Verb(
        english=words[0],
        past=words[1] if len(words) == 3 else _english_past(words[0]),
        participle=words[2] if len(words) == 3 else _english_past(words[0]),
        particle=" ".join(mark[1:] for mark in marks if mark[0] == "+"),
        preposition=" ".join(mark[1:].replace("~", " ") for mark in marks if mark[0] == "~"),
        german=infinitive,
        prefix=prefix,
        third=third,
        preterite=preterite,
        german_participle=participle,
        frame=frame,
        german_preposition=preposition,
        case=case or ("dat" if frame in ("dat", "belong") else "acc"),
        objects=tuple(objects[2:] if frame == "prep" else objects),
        auxiliary="sein" if "sein" in flags else "haben",
        flags=flags,
    )


def _adjective(line: str) -> Adjective:
    english, german, classes = (field.strip() for field in line.split("|"))
    positive, *comparative = english.split()
    form, *german_comparative = german.split()
    form, _, stem = form.partition("/")
    return Adjective(
        english=positive,
        english_comparative=comparative[0] if comparative else f"more {positive}",
        german=form,
        german_comparative=german_comparative[0] if german_comparative else form + "er",
        stem=stem or form.removesuffix("e"),
        classes=frozenset(classes.split()),
    )


NOUNS: tuple[Noun, ...] = tuple(
    _noun(line, header.split()) for header, table in _NOUN_TABLES.items() for line in _lines(table)
)
VERBS: tuple[Verb, ...] = tuple(
    _verb(line, frame) for frame, table in _VERB_TABLES.items() for line in _lines(table)
)
ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(line) for line in _lines(_ADJECTIVE_TABLE))
ADVERBS: tuple[Adverb, ...] = tuple(
    Adverb(english, german, kind)
    for kind, table in _ADVERB_TABLES.items()
    for english, german in (line.split(" = ") for line in _lines(table))
)
